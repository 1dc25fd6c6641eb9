// Turns leak detection off in a sanitized braid-trainer, into which this file is linked: Open MPI's
// plug-ins leak memory and are unloaded before the report, so no suppression can match their names.
// The option is compiled in because ranks receive little of the environment.
extern "C" const char* __asan_default_options() { return "detect_leaks=0"; }
