/* pause: holds a pod's namespaces, reaps its zombies, ends on SIGINT or SIGTERM; -v prints a version (kubeadm upgrade runs that) */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void down(int s) { (void)s; _exit(0); }
static void reap(int s) { (void)s; while (waitpid(-1, NULL, WNOHANG) > 0) ; }

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "-v") == 0) { puts("pause of the lab"); return 0; }
  signal(SIGINT, down);
  signal(SIGTERM, down);
  struct sigaction sa = {.sa_handler = reap, .sa_flags = SA_NOCLDSTOP};
  sigaction(SIGCHLD, &sa, NULL);
  for (;;) pause();
}
