source /tmp/ops-hand/env.sh
cd /tmp/ops-hand
setsid python receiver.py >recv.log 2>&1 & echo $! > recv.pid
export NODEMEND_RECORD_DIR=/tmp/ops-hand/records NODEMEND_METRICS_ADDRESS= NODEMEND_HEALTH_ADDRESS=127.0.0.1:18085
NODEMEND_POLICY_FILE=/tmp/ops-hand/policy.yaml setsid nodemend work >worker.log 2>&1 & echo $! > worker.pid
NODEMEND_SLACK_URL=http://127.0.0.1:18099/slack NODEMEND_PAGERDUTY_KEY=rk NODEMEND_PAGERDUTY_URL=http://127.0.0.1:18099/pd NODEMEND_WEBHOOK_URL=http://127.0.0.1:18099/own NODEMEND_WEBHOOK_SECRET=s3cret NODEMEND_PAGE_EVERY=2 NODEMEND_ACKNOWLEDGE_ADDRESS=127.0.0.1:18098 NODEMEND_PAGERDUTY_WEBHOOK_SECRET=pdsec NODEMEND_SLACK_SIGNING_SECRET=slsec setsid nodemend page >pager.log 2>&1 & echo $! > pager.pid
