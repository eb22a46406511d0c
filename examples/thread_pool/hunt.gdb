# The race in a thread pool: one update of a counter is lost. Which one?
# It fails in few runs: recorded with --chaos, again and again, until it does.
# program: pool.c
# record: --chaos
# until: fails
# modes: hooks

break main
continue
print pool.done
#> = 0
# `pool.done++` is three instructions: load, add, store. The store is to write what pool.done holds, and one more. If it is about to write
# something else, another thread has been there since the load. (disassemble /s worker shows the instructions; this finds the store.)
python
import re
line = next(line for line in gdb.execute("disassemble worker", to_string=True).splitlines()
            if re.search(r"mov +%rax,0x[0-9a-f]+\(%rip\).*<pool", line))
gdb.set_convenience_variable("store", int(line.split()[0], 16))
end
break *$store if $rax != pool.done + 1
#> Breakpoint 2
continue
#> Breakpoint 2, 0x
#> in worker (sum=
python late = gdb.selected_thread().ptid[1]
print pool.done + 1 > $rax
#> = 1
# This thread has come late. Who has written since it read?
watch -location pool.done
#> atchpoint 3
reverse-continue
#> hit Hardware watchpoint 3
#> worker (sum=
python print("another thread:", gdb.selected_thread().ptid[1] != late)
#> another thread: True
