# Times are printed in the time zone of the recording, wherever they are read.
ranks 2
all_reduce 1KiB x100
sleep 400ms
rank 1 kill
all_reduce 4KiB
--- TZ=IST-5:30 ncclscope run -o capture -- fake-nccl play job
announced 201, ABI v5
2| ncclscope: capture in capture: 2 processes, 201 calls; next: ncclscope report capture
--- TZ=UTC0 ncclscope report capture | tr -s ' \n' ' ' | grep -oE '(died at|begun) [-0-9]+ [0-9:.]+ [^ ,]+( .IST.)?' | sed -E 's/[-0-9]+ [0-9:.]+ /<moment> /'
died at <moment> +05:30
begun <moment> +05:30 (IST)
--- rm capture/capture.json; TZ=UTC0 ncclscope report capture | tr -s ' \n' ' ' | grep -oE 'died at [-0-9]+ [0-9:.]+ [^ ,]+' | sed -E 's/[-0-9]+ [0-9:.]+ /<moment> /'
died at <moment> +05:30
