#include "cli/programs.h"

int main(int argc, char** argv) { return braid::BraidMain(argc, argv, BRAID_VERSION); }
