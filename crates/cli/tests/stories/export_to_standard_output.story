# `-` is standard output, and a folder that is not there is named as that.
ranks 2
virtual_time
all_reduce 1KiB x10
--- fake-nccl play job
announced 20, ABI v5
--- ncclscope export capture --to chrome -o - | gzip -dc | head -c 1; test -e ./- || echo ' and no file'
{ and no file
--- ncclscope report capture --html none/page.html
2| error: `none/page.html` can't be written: its folder is not there
2|   hint: name a file in a folder that is there and can be written
[exit 2]
