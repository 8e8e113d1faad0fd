/* A plain Llama decoder in float32, with which the speed of the emulation is compared.

   Matrices are [outputs, inputs], row-major. Threads divide the outputs of a product among them. A
   rotary pair is an element of the first half of a head and its counterpart in the second half. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    int layers, hidden, ffn, heads, kv_heads, head_size, vocab, context;
    float eps;
    const float *frequencies, *embedding, *head, *final_norm;
    const float **attention_norm, **q, **k, **v, **o, **mlp_norm, **gate, **up, **down;
    float *keys, *values; /* [layers, context, kv_heads * head_size] */
} Model;

static void multiply(float *out, const float *w, const float *x, int outputs, int inputs) {
#pragma omp parallel for schedule(static)
    for (int i = 0; i < outputs; i++) {
        const float *row = w + (size_t)i * inputs;
        float sum = 0.0f;
        for (int j = 0; j < inputs; j++) sum += row[j] * x[j];
        out[i] = sum;
    }
}

static void normalise(float *out, const float *x, const float *gain, int n, float eps) {
    float squares = 0.0f;
    for (int i = 0; i < n; i++) squares += x[i] * x[i];
    float scale = 1.0f / sqrtf(squares / n + eps);
    for (int i = 0; i < n; i++) out[i] = x[i] * scale * gain[i];
}

static void rotate(float *x, const Model *m, int heads, int position) {
    int half = m->head_size / 2;
    for (int i = 0; i < half; i++) {
        float c = cosf(m->frequencies[i] * position), s = sinf(m->frequencies[i] * position);
        for (int h = 0; h < heads; h++) {
            float *a = x + h * m->head_size + i, *b = a + half, first = *a;
            *a = first * c - *b * s;
            *b = *b * c + first * s;
        }
    }
}

static void attend(float *out, const float *q, const Model *m, int layer, int position) {
    int size = m->head_size, width = m->kv_heads * size, shared = m->heads / m->kv_heads;
    const float *keys = m->keys + (size_t)layer * m->context * width, *values = m->values + (size_t)layer * m->context * width;
#pragma omp parallel for schedule(static)
    for (int h = 0; h < m->heads; h++) {
        float weights[position + 1], most = -INFINITY, total = 0.0f;
        const float *query = q + h * size;
        size_t at = (size_t)(h / shared) * size;
        for (int t = 0; t <= position; t++) {
            float sum = 0.0f;
            for (int i = 0; i < size; i++) sum += query[i] * keys[(size_t)t * width + at + i];
            weights[t] = sum / sqrtf(size);
            if (weights[t] > most) most = weights[t];
        }
        for (int t = 0; t <= position; t++) total += weights[t] = expf(weights[t] - most);
        memset(out + h * size, 0, size * sizeof(float));
        for (int t = 0; t <= position; t++)
            for (int i = 0; i < size; i++) out[h * size + i] += weights[t] / total * values[(size_t)t * width + at + i];
    }
}

/* Compute the logits [vocab] after `token` at `position`.

   The KV cache must contain keys and values of all earlier positions. Those of `token` are added. */
void step(const Model *m, int token, int position, float *logits) {
    int d = m->hidden, width = m->kv_heads * m->head_size, wide = m->heads * m->head_size;
    float x[d], normed[d], added[d], q[wide], mixed[wide], *gate = malloc(2 * m->ffn * sizeof(float)), *up = gate + m->ffn;
    memcpy(x, m->embedding + (size_t)token * d, d * sizeof(float));
    for (int layer = 0; layer < m->layers; layer++) {
        size_t at = ((size_t)layer * m->context + position) * width;
        normalise(normed, x, m->attention_norm[layer], d, m->eps);
        multiply(q, m->q[layer], normed, wide, d);
        multiply(m->keys + at, m->k[layer], normed, width, d);
        multiply(m->values + at, m->v[layer], normed, width, d);
        rotate(q, m, m->heads, position);
        rotate(m->keys + at, m, m->kv_heads, position);
        attend(mixed, q, m, layer, position);
        multiply(added, m->o[layer], mixed, d, wide);
        for (int i = 0; i < d; i++) x[i] += added[i];
        normalise(normed, x, m->mlp_norm[layer], d, m->eps);
        multiply(gate, m->gate[layer], normed, m->ffn, d);
        multiply(up, m->up[layer], normed, m->ffn, d);
        for (int i = 0; i < m->ffn; i++) gate[i] = gate[i] / (1.0f + expf(-gate[i])) * up[i];
        multiply(added, m->down[layer], gate, d, m->ffn);
        for (int i = 0; i < d; i++) x[i] += added[i];
    }
    normalise(normed, x, m->final_norm, d, m->eps);
    multiply(logits, m->head, normed, m->vocab, d);
    free(gate);
}
