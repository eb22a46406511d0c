# With `set trace-commands on`, gdb shows each command first, those of bis's script too; that is no part of their answers.
# program: forks.c
set trace-commands on
catch fork
continue
#> Catchpoint 1 (forked process
delete
tbreak in_parent
continue
#> in_parent ()
reverse-continue
#> No more reverse-execution history
#> ~ in .* from .*ld-linux
bt 1
#> ~ #0 .* from .*ld-linux
seek end
#> ! ++
seek start
#> ~ in .* from .*ld-linux
info sharedlibrary
#> ~ Yes.*ld-linux
