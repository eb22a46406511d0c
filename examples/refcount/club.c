/* A Python module in C that keeps a list of members. After a while, one of the members has another's name. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

static PyObject *members; /* a list */

static PyObject *add(PyObject *module, PyObject *name)
{
    (void)module;
    if (PyList_Append(members, name) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *all(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return PySequence_List(members);
}

static PyObject *longest(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    Py_ssize_t length = 0;
    PyObject *best = NULL;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(members); i++) {
        PyObject *name = PyList_GET_ITEM(members, i);
        if (PyUnicode_GET_LENGTH(name) > length) {
            length = PyUnicode_GET_LENGTH(name);
            best = name;
        }
    }
    Py_XDECREF(best);
    return PyLong_FromSsize_t(length);
}

static PyMethodDef methods[] = {
    {"add", add, METH_O, "One more member."},
    {"all", all, METH_NOARGS, "A list of all members."},
    {"longest", longest, METH_NOARGS, "How long the longest name is."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef club = {PyModuleDef_HEAD_INIT, "club", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_club(void)
{
    members = PyList_New(0);
    return PyModule_Create(&club);
}
