# The report as one HTML file: the sentence on stdout, the same capture gives the same bytes, `-` is standard output, and
# a file that is there is replaced whole.
ranks 2
virtual_time
comm dp name "</script><img src=x onerror=alert(1)>"
all_reduce 1MiB x3 comm=dp
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 6, ABI v5
--- ncclscope report capture --html report.html
No rank is proved to hold this job up. GPUs stand still in communication for <n> % of the time at most …
2| The report is in report.html
--- cp report.html first.html; ncclscope report capture --html report.html 2>/dev/null; cmp first.html report.html
No rank is proved to hold this job up. GPUs stand still in communication for <n> % of the time at most …
--- ncclscope report capture --html - | cmp - report.html && head -c 15 report.html
<!DOCTYPE html>
--- umask 027; ncclscope report capture --html another.html 2>/dev/null >&2; stat -c '%a %n' another.html; ls -A | grep -v capture
640 another.html
another.html
data
first.html
job
report.html
--- ncclscope report capture --html /dev/null; test -c /dev/null && echo 'still a device'
No rank is proved to hold this job up. GPUs stand still in communication for <n> % of the time at most …
still a device
2| The report is in /dev/null
--- grep -o '&lt;/script&gt;[^<"]*' report.html | head -n 1; grep '<img' report.html | wc -l
&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;
0
--- ncclscope report capture --html missing/report.html
2| error: `missing/report.html` can't be written: its folder is not there
2|   hint: name a file in a folder that is there and can be written
[exit 2]
--- ncclscope report capture --html report.html --json
2| error: the argument '--html <FILE>' cannot be used with '--json'
2| 
2| Usage: ncclscope report --html <FILE> <DIR>
2| 
2| For more information, try 'ncclscope report --help'.
[exit 2]
