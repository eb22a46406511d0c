# What gdb asks of the process itself: mappings, auxiliary values, files, and a core file of it.
# program: data.c
tbreak scope
continue
info proc mappings
#> data
#> libc
#> [stack]
#> ! bis
info proc cmdline
#> data
info proc exe
#> ! unable
#> data
info proc cwd
#> cwd
#> ! unable
info os
#> The recorded processes
info os processes
#> ~ [0-9]+ .*data
info auxv
#> AT_PHDR
#> AT_RANDOM
#> AT_NULL
info files
#> Local exec file
info sharedlibrary
#> libc.so.6
generate-core-file core.of-replay
#> Saved corefile core.of-replay
python import subprocess
python print(subprocess.run(["gdb", "-nx", "-q", "-batch", "-ex", "backtrace", gdb.current_progspace().filename, "core.of-replay"], capture_output=True, text=True).stdout)
#> scope (n=4)
info inferiors
#> process
