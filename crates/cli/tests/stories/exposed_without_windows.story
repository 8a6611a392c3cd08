# A kernel of 10 ms beside an AllReduce of 4 ms hides it; one that comes after it does not. No window is needed to tell.
# The first kernel keeps the GPUs busy until all is launched, however late a busy machine lets the hosts run.
ranks 2
cuda
all_reduce 1KiB
compute 100ms
repeat 20 {
  all_reduce 1MiB time=4ms
  compute 10ms
  join
  compute 1ms
  all_reduce 2MiB time=4ms
  join
  compute 1ms
}
sleep 800ms
sync
--- NCCLSCOPE_WINDOWS=off fake-nccl play job
announced 82, ABI v5
--- ncclscope report capture --all | sed -n '/^  by operation/,/^$/p' | awk '{ print $1, $2, $3, $4, $5, $6 }'
by operation (ms over ranks ±
function size type comm calls known
AllReduce 2 MiB float32 a37d 40
AllReduce 1 MiB float32 a37d 40
--- ncclscope report capture --json | jq -c '.stream_waits.ranks[] | [.rank, .calls, .waited, (.sum_us, .before_us, .unwaited_us | . / 100 | round)]'
[0,40,40,800,0,0]
[1,40,40,800,0,0]
--- ncclscope report capture | sed -n 's/^step \([0-9]*\)\.[0-9]* ms · exposed communication .* stream waits .*/step \1 ms, exposed communication by stream waits/p'
step 16 ms, exposed communication by stream waits
