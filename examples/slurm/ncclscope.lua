-- A module file for Lmod: `module load ncclscope`. Change the path to where it is installed on all nodes.
help([[ncclscope finds the rank, GPU or network link that a distributed job waits for.]])
whatis("Description: communication profiler for NCCL")
prepend_path("PATH", "/opt/ncclscope/bin")
