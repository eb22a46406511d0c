# A session that begins at an event.
# program: calls.c
# replay: -g 20
print $_bis_event
when
#> Completed event: 20
reverse-continue
#> No more reverse-execution history
x/i $pc
#> mov    %rsp,%rdi
