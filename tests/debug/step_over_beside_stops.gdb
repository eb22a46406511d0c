# gdb steps over a breakpoint with one thread alone, and fails an assertion of its own if it then hears of another one: of a
# signal, say, that is to stop the program. That is told when all threads go on.
# program: signals_beside.c
# modes: hooks
handle SIGUSR1 stop print pass
break *handler
python
hits, others = 0, 0
for event in range(80, 400):
    gdb.execute(f"seek {event}", to_string=True)
    if gdb.selected_frame().name() == "handler":
        hits += 1
        gdb.execute("continue", to_string=True)
        others += gdb.selected_frame().name() != "handler"
print(f"{hits > 5}, {others > 5}")
end
#> True, True
info breakpoints
#> breakpoint already hit
