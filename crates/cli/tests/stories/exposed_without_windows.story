# A kernel of 10 ms beside an AllReduce of 4 ms hides it; one that comes after it does not. No window is needed to tell.
ranks 2
cuda
all_reduce 1KiB
repeat 20 {
  all_reduce 1MiB time=4ms
  compute 10ms
  join
  compute 1ms
  all_reduce 2MiB time=4ms
  join
  compute 1ms
}
sleep 500ms
sync
--- NCCLSCOPE_WINDOWS=off fake-nccl play job
announced 82, ABI v5
--- ncclscope report capture | sed -n '/^  by operation/,/^  Streams/p' | sed '$d'
  by operation (ms, over ranks ± 95 %; unwaited: time of calls that no other stream waited for)
  function  bytes type comm calls known waited exposed unwaited
  AllReduce  2MiB f32  a37d    40    40     40 160.000    0.000
  AllReduce  1MiB f32  a37d    40    40     40   0.000    0.000
--- ncclscope report capture --json | jq -c '.stream_waits.ranks[] | [.rank, .calls, .waited, (.sum_us, .before_us, .unwaited_us | . / 100 | round)]'
[0,40,40,800,0,0]
[1,40,40,800,0,0]
--- ncclscope report capture | sed -n 's/^exposed communication .*%/exposed communication x %/p' | sed 's/waits.*/waits/'
exposed communication x % of the time, by stream waits
