/* How the programs in C take turns with run.py: the name of a workload comes in a line of the standard input, what it
 * needed goes out as a line of JSON. */
#ifndef TURNS_H
#define TURNS_H

typedef struct {
  const char *name;
  int calls;      /* of a turn, whose median is the answer; one more goes ahead of them */
  double samples; /* that a call trains on; 0: the answer is the time of a call */
  void *data;     /* what the functions are given */
  void (*prepare)(void *data);     /* once */
  void (*check)(void *data);       /* once, after the first call: whether its result is right */
  void (*before_call)(void *data); /* not timed, or NULL */
  void (*call)(void *data);
  void (*after_call)(void *data); /* not timed, or NULL */
} workload;

/* Answers until the input ends; `version` says what is measured. */
void take_turns(const char *version, const workload *workloads, int count);

/* Answers with a problem and ends the program. Formats as printf does; the text has no quotes and no backslashes. */
#if defined(__GNUC__)
__attribute__((format(printf, 1, 2), noreturn))
#endif
void give_up(const char *format, ...);

#endif
