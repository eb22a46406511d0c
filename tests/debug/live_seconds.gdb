# Checkpoints that are made by themselves after so much time: the program sleeps 20 ms in each of its rounds, so there
# are several of them, and there are as many seconds between two of them as was asked for.
# program: pauses.c
# modes: live
tbreak main
continue
#> main (
set checkpoint-interval 0.15
show checkpoint-interval
#> 0.15
break one if number == 38
continue
#> one (number=38)
python listed = [int(line.split()[0]) for line in gdb.execute("info checkpoints", to_string=True).splitlines()[1:]]
python print("in order:", listed == list(range(1, len(listed) + 1)), "several:", 3 <= len(listed) <= 37)
#> in order: True several: True
python def when(number): gdb.execute(f"rollback {number}", to_string=True); return float(gdb.execute("elapsed-time", to_string=True).split()[-1])
python times = [when(number) for number in listed]
python print("apart:", all(next - one >= 0.149 for one, next in zip(times, times[1:])))
#> apart: True
python def done(number): gdb.execute(f"rollback {number}", to_string=True); return int(gdb.parse_and_eval("rounds"))
python rounds = [done(number) for number in listed]
python print("earlier:", rounds == sorted(rounds) and rounds[-1] < 38 and rounds[0] < rounds[-1])
#> earlier: True
rollback 2
continue
#> one (number=38)
set checkpoint-interval 2 seconds
show checkpoint-interval
#> 2 seconds
delete
continue
#> all
#> exited with status 0
