/* A library that is loaded at run time. */
int plugin_calls;

int plugin_answer(int question)
{
    plugin_calls++;
    return question * 2;
}
