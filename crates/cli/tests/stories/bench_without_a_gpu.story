# What bench says where there is no GPU, no NCCL, nothing to read, or wrong usage.
ranks 1
--- ncclscope bench --cuda nowhere/libcuda.so.1
2| error: the CUDA driver can't be opened: dlopen failed: nowhere/libcuda.so.1: cannot open shared object file: No such file or directory
2|   hint: bench needs NVIDIA's driver and a GPU; in a container, pass the GPUs through (--gpus all, or --nv); --cuda PATH names another libcuda.so.1
[exit 2]
--- ncclscope bench --gpus 0
2| error: invalid value '0' for '--gpus <N>': 0 is not in 1..=4294967295
2| 
2| For more information, try 'ncclscope bench --help'.
[exit 2]
--- ncclscope bench -b 1K -n 5 --time 3s
2| error: the argument '--iters <N>' cannot be used with '--time <TIME>'
2| 
2| Usage: ncclscope bench --min-bytes <SIZE> --iters <N> [FUNCTION]...
2| 
2| For more information, try 'ncclscope bench --help'.
[exit 2]
--- ncclscope bench --read nothing.txt
2| error: `nothing.txt` can't be read: No such file or directory (os error 2)
[exit 2]
--- echo "# nccl-tests" > empty.txt; ncclscope bench --read empty.txt
2| error: `empty.txt` can't be read: expected nccl-tests' output, found no line of figures in it
[exit 2]
--- ncclscope bench --help
Time NCCL's calls, each by itself or back to back, and check their data

  ncclscope bench all_reduce -b 1K -e 1G -f 4        # all GPUs of this machine, a process for each
  ncclscope bench all --sizes 1K,1M --time 3s --gpus 4
  srun -N 2 -n 16 ncclscope bench alltoall           # or torchrun, or mpirun; across hosts
  ncclscope bench --read nccl-tests.txt              # what nccl-tests printed, text or JSON

Columns are those of nccl-tests, then median, percentiles, the host's time inside a call, how far
apart the ranks started, and calls that were set apart for it. Sizes and bandwidths follow
nccl-tests. libnccl.so.2 is the one of LD_LIBRARY_PATH, python3's packages or the system.

Exit status: 0 done, 1 wrong data, or a rank failed or hung, 2 it can't begin, or wrong usage, 130
after ^C. What was measured until then is in the files all the same.

Usage: ncclscope bench [OPTIONS] [FUNCTION]...

Arguments:
  [FUNCTION]...
          all_reduce, all_gather, reduce_scatter, broadcast, reduce, sendrecv (around a ring),
          sendrecv_pairs, alltoall, gather, scatter, or all

          [default: all_reduce]

Options:
  -b, --min-bytes <SIZE>
          Smallest size

          [default: 32M]

  -e, --max-bytes <SIZE>
          Largest size [default: the smallest]

  -f, --factor <N>
          From one size to the next

          [default: 2]

      --sizes <SIZE>
          These sizes instead, like 1K,1M,1G

  -d, --datatype <TYPE>
          int8, uint8, int32, uint32, int64, uint64, half, float, double, bfloat16, f8e4m3 or f8e5m2

          [default: float]

  -o, --op <OP>
          sum, prod, max or min

          [default: sum]

  -r, --root <RANK>
          Root of broadcast, reduce, gather and scatter

          [default: 0]

      --placement <WHERE>
          Two buffers, one, or first two and then one; sendrecv and alltoall know two only

          [default: both]
          [possible values: out, in, both]

      --mode <MODE>
          Start each call together on all ranks and time it, or make all without waiting and time
          the whole

          [default: single]
          [possible values: single, back-to-back]

      --group <N>
          Calls in one ncclGroupStart and ncclGroupEnd; times are of one call

          [default: 1]

      --graph <N>
          Calls (or groups) in one CUDA graph; times are of one call

  -n, --iters <N>
          Calls (or groups, or graphs) at each size

          [default: 20]

      --time <TIME>
          As many as fit into this time at each size, like 3s

  -w, --warmup-iters <N>
          Calls (or groups, or graphs) before, at each size

          [default: 5]

  -c, --check <0|1>
          Check the data: 1 yes, 0 no

          [default: 1]

      --max-skew <TIME>
          Set calls apart that the ranks of a host start further from each other, in single mode

          [default: 10us]

      --stress[=<N>]
          At the end, this many calls (or groups, or graphs) of each function without a wait between
          them

      --stress-size <SIZE>
          Size of the calls of --stress

          [default: 1M]

      --starts <N>
          Measure everything so many times, each time in new processes, and say how far the starts
          differ

          [default: 1]

      --gpus <N>
          GPUs of this machine, one process for each [default: as torchrun, srun or mpirun say, else
          all]

      --hostid-per <N>
          Let NCCL take every N ranks for a host of their own (NCCL_HOSTID)

      --nccl <PATH>
          libnccl.so.2 to use

      --cuda <PATH>
          libcuda.so.1 to use

      --port <PORT>
          Port of rank 0, under a launcher [default: the one after MASTER_PORT, else 29511]

      --timeout <TIME>
          A rank that does not answer for so long hangs

          [default: 60s]

      --json <FILE>
          Write the table as JSON too (ncclscope.bench/1, with nccl-tests' names); - is stdout,
          instead of the text

      --parquet <FILE>
          Write every call of every rank as Parquet

      --run <NAME>
          The run's name in that file

          [default: bench]

      --read <FILE>
          Print what nccl-tests or this command printed before, text or JSON, instead of measuring

  -h, --help
          Print help (see a summary with '-h')

  -V, --version
          Print version
