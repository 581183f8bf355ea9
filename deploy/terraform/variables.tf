variable "cluster" {
  description = "Name of the EKS cluster; the same as NODEMEND_CLUSTER."
  type        = string
}

variable "namespace" {
  description = "Kubernetes namespace of Nodemend."
  type        = string
  default     = "nodemend"
}

variable "record_bucket" {
  description = "Name of the bucket for reports and audit logs; empty for none."
  type        = string
  default     = ""
}

variable "record_retention_days" {
  description = "How long Object Lock keeps a record from being changed or deleted."
  type        = number
  default     = 400
}

variable "checkpoint_buckets" {
  description = "Names of buckets in which jobs keep checkpoints, for the worker to verify them and to hold the last good one."
  type        = list(string)
  default     = []
}

variable "alarm_emails" {
  description = "Who is told of alarms; each confirms once by mail."
  type        = list(string)
  default     = []
}

variable "health_queue" {
  description = "Whether AWS Health's events about EC2 go to a queue that watch-cluster reads."
  type        = bool
  default     = false
}
