# Back over some ten thousand writes that a condition has passed quietly, and over events that are other processes': the
# server was at the end of its stack, or had no end.
# program: writes_between_children.c
handle SIGUSR1 nostop noprint
break main
continue
delete
watch-if total total > 100020003
continue
#> Hardware watchpoint
delete
seek end
break main
reverse-continue
#> Breakpoint
#> main ()
print total
#> = 0
