# The reference count: a Python module in C, and a list in which one object has become another.
# program: party.py
# library: club.c
# args: {library}
# cflags library: -O0 {python}
# needs: python3 python3-config
# replay: -e

# The program has seen who it is: the 43rd. An object lies where the list has it, and it is not the one that was put there.
set $list = (PyListObject *) members
print (char *) $list->ob_item[42] + sizeof(PyASCIIObject)
#> for the guests"
print (char *) $list->ob_item[41] + sizeof(PyASCIIObject)
#> "member 41"
# So there was another object in its place, which is gone: its count of references has come to 0. When was that, the last time?
set $object = $list->ob_item[42]
watch-if $object->ob_refcnt $object->ob_refcnt == 0
#> atchpoint 1
reverse-continue
#> Hardware watchpoint 1
#> New value = 1
backtrace 3
#> in longest (module=
# The list has a reference to it still: longest gave away one that it did not have. PyList_GET_ITEM lends, it does not give.
frame function longest
#> Py_XDECREF(best);
print (char *) best + sizeof(PyASCIIObject)
#> "member 42 the great"
