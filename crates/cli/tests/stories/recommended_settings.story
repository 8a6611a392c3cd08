# NCCL's variables that cost time or do nothing here, with the evidence; values that are right, and jobs to which they do not apply, are left alone.
ranks 4
virtual_time
all_reduce 1KiB algo=RING proto=LL
sync
repeat 20 { all_reduce 1MiB algo=RING proto=LL channels=8 time=20us }
--- NCCL_P2P_DISABLE=1 NCCL_IB_DISABLE=1 NCCL_DEBUG=INFO NCCL_MIN_CTAS=32 NCCL_BUFFSIZE=8388608 NCCL_NET_GDR_LEVEL=SYS NCCL_ALGO=Tree NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 84, ABI v5
--- ncclscope report capture --all | sed -n '/^What to do/,/^$/p'
What to do (largest gain first)
  1. Unset NCCL_P2P_DISABLE: without it, GPUs of a node reach each other directly, over NVLink or PCIe.
     NCCL_P2P_DISABLE=1 was set, and this job has communicators with several ranks on a node. Effort low, risk low.
  2. Don't rely on NCCL_ALGO=Tree: NCCL used something else for AllReduce. Effort low, risk low.
  3. Unset NCCL_MIN_CTAS, or set it to 8 at most: NCCL used fewer channels than it asks for. NCCL_MIN_CTAS=32 was set,
     and no call used more than 8 channels. Effort low, risk low.
  4. Unset NCCL_BUFFSIZE: it is the buffer of Simple, a protocol that no call used. NCCL_BUFFSIZE=8388608 was set, and
     every call with a known protocol used another. Effort low, risk low.
  5. Unset NCCL_NET_GDR_LEVEL here: it is of the way between a GPU and a NIC. NCCL_NET_GDR_LEVEL=SYS was set, all
     communicators are in one node, and no call used the network. Effort low, risk low.
  6. Set NCCL_DEBUG=WARN: more output is for the search of an error, and is written by the threads that make the calls.
     NCCL_DEBUG=INFO was set. Effort low, risk low.
--- ncclscope report capture | sed -n '/^What to do/,/^$/p' | tail -2
  … 3 more (--all)
--- rm -r capture; NCCL_P2P_DISABLE=0 NCCL_IB_DISABLE=1 NCCL_DEBUG=WARN NCCL_MIN_CTAS=4 NCCL_ALGO=Ring NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 84, ABI v5
--- ncclscope report capture --json | jq -c .recommendations
[]
--- rm -r capture; sed 's/proto=LL channels/proto=SIMPLE channels/; s/ranks 4/ranks 4\nhosts 2/' job | NCCL_IB_DISABLE=1 NCCL_BUFFSIZE=8388608 NCCL_NET_GDR_LEVEL=SYS NCCLSCOPE_TIMING=stamps fake-nccl play -
announced 84, ABI v5
--- ncclscope report capture --json | jq -c '.recommendations[] | .rule, .subject'
"transport_off"
"NCCL_IB_DISABLE"
