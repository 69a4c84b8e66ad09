#include "saving.h"

#include <stdio.h>
#include <umbo/io.h>

static void set_place(umbo_checkpoint *checkpoint, const place *where) {
  UMBO_CHECK(umbo_checkpoint_set_integer(checkpoint, "steps", where->steps));
  UMBO_CHECK(umbo_checkpoint_set_integer(checkpoint, "epoch", where->epoch));
  UMBO_CHECK(umbo_checkpoint_set_number(checkpoint, "examples", where->examples));
  UMBO_CHECK(umbo_checkpoint_set_number(checkpoint, "epoch/loss", where->total.loss));
  UMBO_CHECK(umbo_checkpoint_set_number(checkpoint, "epoch/correct", where->total.correct));
  UMBO_CHECK(umbo_checkpoint_set_number(checkpoint, "epoch/examples", where->total.examples));
}

static void get_place(const umbo_checkpoint *checkpoint, place *where) {
  UMBO_CHECK(umbo_checkpoint_integer(checkpoint, "steps", &where->steps));
  UMBO_CHECK(umbo_checkpoint_integer(checkpoint, "epoch", &where->epoch));
  UMBO_CHECK(umbo_checkpoint_number(checkpoint, "examples", &where->examples));
  UMBO_CHECK(umbo_checkpoint_number(checkpoint, "epoch/loss", &where->total.loss));
  UMBO_CHECK(umbo_checkpoint_number(checkpoint, "epoch/correct", &where->total.correct));
  UMBO_CHECK(umbo_checkpoint_number(checkpoint, "epoch/examples", &where->total.examples));
}

saving saving_begin(const trainer *t, const options *choices, const workers *together, place *where) {
  saving s = {NULL, NULL};
  if (choices->checkpoint == NULL) return s;
  UMBO_CHECK(umbo_checkpoint_create(t->strategy, &s.checkpoint));
  for (int i = 0; i < 2 * t->shape.layers; ++i) {
    UMBO_CHECK(umbo_checkpoint_add_variable(s.checkpoint, NULL, t->variables[i]));
  }
  UMBO_CHECK(umbo_checkpoint_add_optimizer(s.checkpoint, "optimizer", t->optimizer));
  UMBO_CHECK(umbo_checkpoint_add_iterator(s.checkpoint, "training batches", t->training_batches));
  set_place(s.checkpoint, where);

  /* A fresh start moves what another training has left in the folder out of the way. */
  UMBO_CHECK(umbo_checkpoint_manager_create(
      s.checkpoint, choices->checkpoint,
      &UMBO_OPTIONS(umbo_checkpoint_manager, .max_to_keep = 2, .every_steps = choices->save_every,
                    .start_fresh = !choices->resume),
      &s.manager));
  if (choices->resume) {
    int64_t step = UMBO_NONE;
    UMBO_CHECK(umbo_checkpoint_manager_restore_latest(s.manager, &step));
    get_place(s.checkpoint, where);
    workers_must_agree(together, where->steps, "the steps of the newest checkpoint; is the folder shared?");
    if (!choices->json_only && step != UMBO_NONE) printf("resumes after step %lld\n", (long long)step);
  }
  return s;
}

void saving_step(const saving *s, const place *where, int must) {
  if (s->manager == NULL) return;
  set_place(s->checkpoint, where);
  UMBO_CHECK(umbo_checkpoint_manager_save(s->manager, where->steps, NULL, must, NULL));
}

void saving_end(const saving *s) {
  umbo_checkpoint_manager_release(s->manager);
  umbo_checkpoint_release(s->checkpoint);
}
