# Conditions and commands that call functions.
# program: callee.c
handle SIGUSR1 nostop noprint
break add if half(a) == 10
commands
silent
printf "called %d\n", (int) half(4 * a)
end
continue
#> called 40
print calls
#> = 4
python
class Pair(gdb.Function):
    def __init__(self):
        super().__init__("pair")
    def invoke(self, x):
        return gdb.parse_and_eval("triple")(x)["second"]
Pair()
end
print $pair(21)
#> = 42
delete
continue
#> exited with status 0
