# detect.sh NODE INSTANCE : a detector with a kernel log of its own
source /tmp/ops-hand/env.sh
d=/tmp/ops-hand/$1; mkdir -p $d/spool; touch $d/kmsg; cd $d
NODE_NAME=$1 NODEMEND_INSTANCE_ID=$2 NODEMEND_KMSG=$d/kmsg NODEMEND_SPOOL_DIR=$d/spool NODEMEND_DETECTOR_ADDRESS=127.0.0.1:$3 setsid python -m detector >detector.log 2>&1 & echo $! > $d/detector.pid
