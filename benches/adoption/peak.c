/* Runs a program, and prints a line with the most kilobytes of it that were resident. A process begins with what its parent had
 * resident, so that of a large one, such as Python, would hide a small program's. */
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
  struct rusage used;
  int status = 0;
  const pid_t child = argc > 1 ? fork() : -1;
  if (child == 0) {
    execv(argv[1], argv + 1);
    _exit(127);
  }
  if (child < 0 || wait4(child, &status, 0, &used) != child) {
    perror("peak");
    return 1;
  }
  printf("peak %ld\n", used.ru_maxrss);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
