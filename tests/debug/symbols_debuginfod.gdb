# Debugging information from a debuginfod server, as gdb gets it where it is set so.
# program: stripped.sh
# other: basics.c
# args: {other}
# needs: python3 objcopy
shell python3 debuginfod.py served address $PPID > /dev/null 2>&1 &
shell while ! [ -e address ]; do sleep 0.05; done
source address
python import os; os.environ["DEBUGINFOD_CACHE_PATH"] = os.path.abspath("cache")
set debuginfod enabled on
process mine
break basics.c:10
continue
#> add (a=0, b=0) at
print sum
#> = 0
reverse-finish
#> twice (value=0)
