variable "cluster" {
  description = "Name of the EKS cluster; the same as NODEMEND_CLUSTER."
  type        = string

  validation {
    condition     = can(regex("^[0-9A-Za-z][0-9A-Za-z_-]{0,99}$", var.cluster))
    error_message = "cluster is no name of an EKS cluster: letters, digits, hyphens and underscores, at most 100. `aws eks list-clusters` lists them."
  }
}

variable "namespace" {
  description = "Kubernetes namespace of Nodemend."
  type        = string
  default     = "nodemend"
  nullable    = false

  validation {
    condition     = can(regex("^[0-9a-z]([0-9a-z-]{0,61}[0-9a-z])?$", var.namespace))
    error_message = "namespace is no name of a Kubernetes namespace: lower-case letters, digits and hyphens, at most 63."
  }
}

variable "record_bucket" {
  description = "Name of the bucket for reports and audit logs; empty for none."
  type        = string
  default     = ""
  nullable    = false

  validation {
    condition     = can(regex("^([0-9a-z][0-9a-z.-]{1,61}[0-9a-z])?$", var.record_bucket))
    error_message = "record_bucket is no name of an S3 bucket: 3 to 63 lower-case letters, digits, dots and hyphens, without `s3://`; empty for none."
  }
}

variable "record_retention_days" {
  description = "How long Object Lock keeps a record from being changed or deleted."
  type        = number
  default     = 400
  nullable    = false

  validation {
    condition     = var.record_retention_days == floor(var.record_retention_days) && var.record_retention_days >= 1 && var.record_retention_days <= 36500
    error_message = "record_retention_days is no whole number from 1 to 36500, which is what S3 Object Lock takes."
  }
}

variable "checkpoint_buckets" {
  description = "Names of buckets in which jobs keep checkpoints, for the worker to verify them and to hold the last good one."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for name in var.checkpoint_buckets : can(regex("^[0-9a-z][0-9a-z.-]{1,61}[0-9a-z]$", name))])
    error_message = "checkpoint_buckets has one that is no name of an S3 bucket: 3 to 63 lower-case letters, digits, dots and hyphens, without `s3://` or a path."
  }
}

variable "alarm_emails" {
  description = "Who is told of alarms; each confirms once by mail."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for address in var.alarm_emails : can(regex("^[^@[:space:]]+@[^@[:space:]]+$", address))])
    error_message = "alarm_emails has one that is no mail address, such as oncall@example.com."
  }
}

variable "health_queue" {
  description = "Whether AWS Health's events about EC2 go to a queue that watch-cluster reads."
  type        = bool
  default     = false
  nullable    = false
}
