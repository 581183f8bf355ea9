# EKS Pod Identity: the add-on eks-pod-identity-agent gives pods of these service accounts these roles. The policies are
# deploy/aws/iam, which the tests hold to the calls that Nodemend makes.

locals {
  iam = "${path.module}/../aws/iam"
  # Detectors need no rights in AWS.
  policies = {
    "nodemend-worker"        = file("${local.iam}/worker.json")
    "nodemend-watch-cluster" = file("${local.iam}/watch-cluster.json")
  }
  # IAM and EventBridge take 64 characters, EKS a hundred. A name that is cut keeps a hash: what two clusters of one
  # account begin with may be the same, and a rule or queue that is there already would be shared without a word.
  names = {
    for key, full in merge(
      { for key in keys(local.policies) : key => "${key}-${var.cluster}" },
      { health = "nodemend-${var.cluster}-health" },
    ) :
    key => length(full) <= 64 ? full : "${substr(full, 0, 55)}-${substr(sha256(full), 0, 8)}"
  }
}

resource "aws_iam_role" "component" {
  for_each = local.policies
  name     = local.names[each.key]
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "pods.eks.amazonaws.com" }
      Action    = ["sts:AssumeRole", "sts:TagSession"]
    }]
  })
}

resource "aws_iam_role_policy" "component" {
  for_each = local.policies
  name     = each.key
  role     = aws_iam_role.component[each.key].id
  policy   = each.value
}

resource "aws_eks_pod_identity_association" "component" {
  for_each        = local.policies
  cluster_name    = var.cluster
  namespace       = var.namespace
  service_account = each.key
  role_arn        = aws_iam_role.component[each.key].arn
}
