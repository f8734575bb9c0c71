/* 5. The C interface: two halves of a matrix's rows become two halves of its columns, on threads. */
#include <stdio.h>
#include <stdlib.h>

#include "retile/c.h"

static void require(retile_status status) {
  if (status == RETILE_OK) return;
  fprintf(stderr, "%s\n", retile_error_message());
  exit(status);
}

int main(void) {
  retile_mesh* mesh;
  retile_layout *rows, *columns;
  retile_plan* plan;
  require(retile_mesh_parse("a=2", &mesh));
  require(retile_layout_parse(mesh, "[2{a}4, 6]", &rows));
  require(retile_layout_parse(mesh, "[4, 3{a}6]", &columns));
  require(retile_plan_create(rows, columns, "f32", NULL, &plan));

  char text[1000];
  require(retile_plan_text(plan, text, sizeof text, NULL));
  fputs(text, stdout);

  retile_engine* engine;
  retile_run* run;
  require(retile_engine_threads(2, &engine));
  require(retile_run_create(plan, engine, NULL, NULL, &run));

  float sources[2][2][6], targets[2][4][3];
  for (int device = 0; device < 2; ++device)
    for (int i = 0; i < 2; ++i)
      for (int j = 0; j < 6; ++j) sources[device][i][j] = (float)(10 * (2 * device + i) + j);
  const void* from[2] = {sources[0], sources[1]};
  void* to[2] = {targets[0], targets[1]};
  require(retile_run_execute(run, from, to));
  for (int i = 0; i < 4; ++i) printf("%2g %2g %2g | %2g %2g %2g\n", targets[0][i][0], targets[0][i][1], targets[0][i][2],
                                     targets[1][i][0], targets[1][i][1], targets[1][i][2]);

  /* What cannot be done is said, with the place. */
  retile_layout* wrong = NULL;
  if (retile_layout_parse(mesh, "[2{b}4, 6]", &wrong) != RETILE_OK) puts(retile_error_message());

  retile_run_free(run);
  retile_engine_free(engine);
  retile_plan_free(plan);
  retile_layout_free(rows);
  retile_layout_free(columns);
  retile_mesh_free(mesh);
  return 0;
}
