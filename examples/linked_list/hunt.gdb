# The corrupted linked list: who has written over a pointer?
# program: orders.c
# replay: -e

# The session begins at the end of the recording, where the program was killed.
backtrace
#> total ()
#> main ()
info locals
#> order = 0x
# This node is not one that malloc has made, so the one before it has the wrong pointer. Which one is that? gdb's Python walks the list.
python
node = gdb.parse_and_eval("orders")
bad = int(gdb.parse_and_eval("order"))
while int(node["next"]) != bad:
    node = node["next"]
gdb.set_convenience_variable("node", node)
end
print $node->customer
#> = "Anna-Lena Vogels"
print $node->cents
#> = 11700
# Something has written into $node->next. From here back to the last write:
watch -location $node->next
#> Hardware watchpoint 1: -location $node->next
reverse-continue
#> Hardware watchpoint 1: -location $node->next
#> Old value = (struct order *) 0x
#> New value = (struct order *) 0x
#> rename_customer
# The program stands in front of the write that did it: the last byte of a name that is too long for the field.
backtrace
#> rename_customer (order=
#> name=
#> "Anna-Lena Vogelsang"
#> main () at
info locals
#> i = 19
print sizeof order->customer
#> = 16
