# A structure of 200 bytes, which no debug registers can watch: written by the program, by its library and by a system call.
# program: large.c
# modes: hooks no-hooks software
break begin
continue
watch record
continue
#> Hardware watchpoint 2: record
#> Old value = {name = '\000' <repeats 63 times>, numbers = {0 <repeats 32 times>}
#> New value = {name = '\000' <repeats 63 times>, numbers = {0 <repeats 31 times>, 1}
#> strcpy
continue
#> Hardware watchpoint 2: record
#> ~ New value = .name = "by the p
continue
#> Hardware watchpoint 2: record
#> New value = {name = "by the program"
continue
#> Hardware watchpoint 2: record
#> ~ New value = .*next = 0x.*<record>
continue
#> Hardware watchpoint 2: record
#> New value = {name = "by a call\000gram"
backtrace
#> read
#> main ()
continue
#> exited with status 0
reverse-continue
#> Hardware watchpoint 2: record
#> Old value = {name = "by a call\000gram"
#> New value = {name = "by the program"
reverse-continue
#> ~ New value = .*next = 0x0
reverse-continue
#> New value = {name = "by the p"
reverse-continue
#> New value = {name = '\000' <repeats 63 times>, numbers = {0 <repeats 31 times>, 1}
reverse-continue
#> New value = {name = '\000' <repeats 63 times>, numbers = {0 <repeats 32 times>}
reverse-continue
#> Breakpoint 1, begin
