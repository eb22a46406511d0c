# The time that had passed when it was recorded: each thread sleeps for 0.3 s.
# program: names.c
break named
continue
elapsed-time
#> ~ Elapsed Time \(s\): 0\.[0-9]{3}
continue
elapsed-time
#> ~ Elapsed Time \(s\): (0\.[3-9]|[1-9])
continue
elapsed-time
#> ~ Elapsed Time \(s\): (0\.[6-9]|[1-9])
reverse-continue
python times = [float(gdb.execute("elapsed-time", to_string=True).split()[-1])]
reverse-continue
python times.append(float(gdb.execute("elapsed-time", to_string=True).split()[-1]))
python print(times[0] - times[1] >= 0.3)
#> True
