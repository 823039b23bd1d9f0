float largest_of_group(__global const float* in, int C, __local float* parts) {
  float own = -INFINITY;
  for (int c = get_local_id(0); c < C; c += 16) own = fmax(own, in[c]);
  parts[get_local_id(0)] = own;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int i = 0; i < 16; ++i) own = fmax(own, parts[i]);
  return own;
}
