# ^C stops a program that computes, live and where it is replayed. kill ends it.
# program: long.c
# args: 30000000000
# modes: live
# status: 137
# On a busy machine ^C may come before the program has gone on, or before gdb has let it: it is pressed until it has.
python import os, subprocess
python def press(): subprocess.Popen(["sh", "-c", f"sleep 0.4; kill -INT {os.getpid()}"])
python exec("def once():\n while True:\n  try:\n   press()\n   return gdb.execute('continue')\n  except (KeyboardInterrupt, gdb.error): pass")
python exec("def until(moved):\n while not int(gdb.parse_and_eval(moved)): once()")
tbreak main
continue
#> main (
python until("spins > 0")
#> SIGINT
set $s = spins
print spins > 0
#> = 1
checkpoint
#> Checkpoint 1
tbreak main
reverse-continue
#> main (
print spins
#> = 0
# Where it is only done again, ^C may lead back to where that began: places in the middle have no names at first.
python once()
#> SIGINT
rollback
print spins == $s
#> = 1
python until("spins > $s")
#> SIGINT
print spins > $s
#> = 1
kill
