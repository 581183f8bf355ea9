# EKS Pod Identity: the add-on eks-pod-identity-agent gives pods of these service accounts these roles. The policies are
# deploy/aws/iam, which the tests hold to the calls that Nodemend makes.

locals {
  iam = "${path.module}/../aws/iam"
  # Detectors need no rights in AWS.
  policies = {
    "nodemend-worker"        = file("${local.iam}/worker.json")
    "nodemend-watch-cluster" = file("${local.iam}/watch-cluster.json")
  }
}

data "aws_iam_policy_document" "pods" {
  statement {
    actions = ["sts:AssumeRole", "sts:TagSession"]

    principals {
      type        = "Service"
      identifiers = ["pods.eks.amazonaws.com"]
    }
  }
}

resource "aws_iam_role" "component" {
  for_each           = local.policies
  name               = "${each.key}-${var.cluster}"
  assume_role_policy = data.aws_iam_policy_document.pods.json
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
