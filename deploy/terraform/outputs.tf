output "worker_role_arn" {
  description = "For clusters without Pod Identity, as aws.roles.worker of the chart, with a trust policy of their own."
  value       = aws_iam_role.component["nodemend-worker"].arn
}

output "alarm_topic_arn" {
  description = "Topic that alarms are told to."
  value       = aws_sns_topic.alarms.arn
}

output "health_queue_url" {
  description = "For watchCluster.ec2QueueUrl of the chart; null without health_queue."
  value       = one([for queue in aws_sqs_queue.health : queue.url])
}
