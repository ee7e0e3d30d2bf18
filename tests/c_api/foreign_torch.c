/* Bears the name of a library of Torch (CMakeLists.txt), as another version of it would. */
int kvloupe_test_foreign_torch(void);
int kvloupe_test_foreign_torch(void) { return 1; }
