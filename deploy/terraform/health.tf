# What AWS Health says of EC2 instances, to a queue that watch-cluster reads (watchCluster.ec2QueueUrl of the chart). A
# queue takes the events of the whole account and region; what is about other clusters' instances is dropped.

locals {
  health = var.health_queue ? toset([local.names["health"]]) : toset([])
}

resource "aws_sqs_queue" "health" {
  for_each                  = local.health
  name                      = each.key
  message_retention_seconds = 1209600
  sqs_managed_sse_enabled   = true
}

resource "aws_cloudwatch_event_rule" "health" {
  for_each      = local.health
  name          = each.key
  event_pattern = file("${path.module}/../aws/health-events.json")
}

resource "aws_cloudwatch_event_target" "health" {
  for_each = local.health
  rule     = aws_cloudwatch_event_rule.health[each.key].name
  arn      = aws_sqs_queue.health[each.key].arn
}

resource "aws_sqs_queue_policy" "health" {
  for_each  = local.health
  queue_url = aws_sqs_queue.health[each.key].id
  policy = replace(
    replace(file("${path.module}/../aws/queue-policy.json"), "QUEUE_ARN", aws_sqs_queue.health[each.key].arn),
    "RULE_ARN", aws_cloudwatch_event_rule.health[each.key].arn
  )
}

resource "aws_iam_role_policy" "health" {
  for_each = local.health
  name     = "nodemend-health-queue"
  role     = aws_iam_role.component["nodemend-watch-cluster"].id
  policy   = replace(file("${local.iam}/health-queue.json"), "QUEUE", each.key)
}
