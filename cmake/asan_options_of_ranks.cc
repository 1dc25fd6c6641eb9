// Linked into braid-trainer when it is sanitized: Open MPI's plug-ins leak what they allocated when
// they are unloaded, and their names with it, so that no suppression could match. In the program,
// because ranks get little of the environment.
extern "C" const char* __asan_default_options() { return "detect_leaks=0"; }
