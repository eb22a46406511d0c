# The crash that happens once in a thousand runs: recorded with --chaos, again and again, until it has happened.
# program: server.c
# record: --chaos
# until: fails
# modes: hooks
# replay: -e

backtrace
#> answer ()
#> serve (
# strlen has got NULL. Up to the frame of ours:
frame function answer
#> strlen(greeting->text)
print greeting
#> = (struct line *) 0x0
# But answer has looked before. Who has made it NULL since then?
watch -location greeting
#> atchpoint 1
reverse-continue
#> hit Hardware watchpoint 1
#> New value = (struct line *) 0x5
#> drop_greeting ()
backtrace
#> drop_greeting ()
#> main ()
# And where does the thread stand that crashes later? Between its look (it has the old value in a register then) and
# its use.
thread apply all -s frame function answer
#> answer ()
#> ~ if \(greeting == NULL\)|sent \+= strlen\(greeting->text\);
