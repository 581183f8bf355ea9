# Buckets of checkpoints: the worker reads manifests there, and holds the last good checkpoint of a job whose data is
# suspect (docs/checkpointing.md).

resource "aws_iam_role_policy" "checkpoints" {
  for_each = toset(var.checkpoint_buckets)
  name     = "nodemend-checkpoints-${each.value}"
  role     = aws_iam_role.component["nodemend-worker"].id
  policy   = replace(file("${local.iam}/checkpoints.json"), "BUCKET", each.value)
}
