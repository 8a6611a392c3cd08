#!/bin/sh
# For administrators: brings what killed processes left on this node into their captures, also after scancel
# and at the time limit, when the job's own script can't. In slurm.conf: Epilog=/etc/slurm/epilog.d/*
#
# Slurm runs it as root on each node. `collect --all` runs as the job's user, so all files stay the user's. It
# adopts from all captures of this user on this node; processes that still run are left alone.
#
# With job_container/tmpfs, a job's /tmp and /dev/shm are gone when the epilog runs. Run `ncclscope collect
# --all` as a TaskEpilog there, which is the user's already, or leave `collect` to the job's script.
command=${NCCLSCOPE_COMMAND:-ncclscope}
if [ -n "$SLURM_JOB_USER" ] && command -v "$command" > /dev/null; then
    su "$SLURM_JOB_USER" -s /bin/sh -c "'$command' collect --all" > /dev/null 2>&1
fi
# A failed epilog would drain the node.
exit 0
