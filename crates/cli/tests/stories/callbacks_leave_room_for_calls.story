# Callbacks take half of the file at most, so all calls have rows, and exports say what is not there.
ranks 2
hosts 2
repeat 1000 {
all_reduce 1MiB
sleep 500us
}
--- NCCLSCOPE_MODE=callbacks NCCLSCOPE_MAX_SIZE=256KiB NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 2000, ABI v5
--- ncclscope report capture | grep recorded,
  2000 of 2000 announced calls recorded, 2000 timed.
--- ncclscope export capture -o callbacks.jsonl 2>&1 | sed 's/[0-9][0-9]*/N/'
warning: N callbacks are left out, because the files of their processes were full
  hint: NCCLSCOPE_MAX_SIZE is their size; calls have rows in any case
N callbacks written to callbacks.jsonl
