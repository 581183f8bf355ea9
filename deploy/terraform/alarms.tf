# On the metrics of NODEMEND_CLOUDWATCH; deploy/aws/alarms.json, which the tests put to CloudWatch's API.

locals {
  alarms = {
    for alarm in jsondecode(replace(file("${path.module}/../aws/alarms.json"), "CLUSTER", var.cluster)) :
    alarm.AlarmName => alarm
  }
}

resource "aws_sns_topic" "alarms" {
  name = "nodemend-${var.cluster}"
}

resource "aws_sns_topic_subscription" "alarms" {
  for_each  = toset(var.alarm_emails)
  topic_arn = aws_sns_topic.alarms.arn
  protocol  = "email"
  endpoint  = each.value
}

resource "aws_cloudwatch_metric_alarm" "nodemend" {
  for_each            = local.alarms
  alarm_name          = each.key
  alarm_description   = each.value.AlarmDescription
  comparison_operator = each.value.ComparisonOperator
  threshold           = each.value.Threshold
  evaluation_periods  = each.value.EvaluationPeriods
  treat_missing_data  = each.value.TreatMissingData
  alarm_actions       = [aws_sns_topic.alarms.arn]

  namespace   = try(each.value.Namespace, null)
  metric_name = try(each.value.MetricName, null)
  statistic   = try(each.value.Statistic, null)
  period      = try(each.value.Period, null)
  dimensions  = try({ for one in each.value.Dimensions : one.Name => one.Value }, null)

  dynamic "metric_query" {
    for_each = try(each.value.Metrics, [])

    content {
      id          = metric_query.value.Id
      expression  = metric_query.value.Expression
      period      = metric_query.value.Period
      return_data = metric_query.value.ReturnData
    }
  }
}
