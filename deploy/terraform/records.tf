# Reports and audit logs, which nobody may change or delete before their time.

locals {
  records = var.record_bucket == "" ? toset([]) : toset([var.record_bucket])
}

resource "aws_s3_bucket" "records" {
  for_each            = local.records
  bucket              = each.value
  object_lock_enabled = true
}

resource "aws_s3_bucket_versioning" "records" {
  for_each = local.records
  bucket   = aws_s3_bucket.records[each.key].id

  versioning_configuration {
    status = "Enabled"
  }
}

resource "aws_s3_bucket_object_lock_configuration" "records" {
  for_each = local.records
  bucket   = aws_s3_bucket.records[each.key].id

  rule {
    default_retention {
      mode = "COMPLIANCE"
      days = var.record_retention_days
    }
  }

  depends_on = [aws_s3_bucket_versioning.records]
}

resource "aws_s3_bucket_public_access_block" "records" {
  for_each                = local.records
  bucket                  = aws_s3_bucket.records[each.key].id
  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_iam_role_policy" "records" {
  for_each = local.records
  name     = "nodemend-records"
  role     = aws_iam_role.component["nodemend-worker"].id
  policy   = replace(file("${local.iam}/records.json"), "BUCKET", each.value)
}
