# gdb steps over a breakpoint with one thread alone, and fails an assertion of its own if it then hears of a signal of
# another one; where a seek has led to a thread that is not the next to run, others run first, and get theirs.
# program: signals_beside.c
# modes: hooks
handle SIGUSR1 nostop noprint pass
break *handler
python
hits, stops = 0, 0
for event in range(80, 400):
    gdb.execute(f"seek {event}", to_string=True)
    if gdb.selected_frame().name() == "handler":
        hits += 1
        gdb.execute("continue", to_string=True)
        stops += gdb.selected_frame().name() == "handler"
print(f"{hits > 5}, {hits == stops}")
end
#> True, True
info breakpoints
#> breakpoint already hit
