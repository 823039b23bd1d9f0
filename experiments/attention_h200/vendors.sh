# To be sourced: where vendors' libraries lie, if they lie where toolkits usually are, and which contenders `folders` have.
for library in libcudart.so.13 libcublasLt.so.13 libcudnn.so.9; do
  found=$(find /usr/local /opt /usr/lib -name "$library" -not -path '*/stubs/*' 2>/dev/null | head -n 1)
  [ -z "$found" ] || LD_LIBRARY_PATH=$(dirname "$found"):${LD_LIBRARY_PATH:-}
done
export LD_LIBRARY_PATH
contenders=
for name in cudnn flash_attention_3; do
  for folder in $folders; do
    [ ! -f "$folder/libcultivar-contender-$name.so" ] || contenders="$contenders --contender $name"
  done
done
