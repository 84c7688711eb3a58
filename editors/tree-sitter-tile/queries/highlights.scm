;; Made by `python -m dsl.editors.treesitter` from the grammar and the tables of words.
(name_token) @variable
((name (name_token) @constant.builtin) (#any-of? @constant.builtin "False" "None" "True" "false" "inf" "nan" "true"))
((name (name_token) @type.builtin) (#any-of? @type.builtin "b1" "bf16" "e4m3" "e5m2" "f16" "f32" "f64" "i1" "index" "s16" "s32" "s4" "s64" "s8" "tf32" "u16" "u32" "u4" "u64" "u8"))
((scalar_type (name_token) @type.builtin) (#any-of? @type.builtin "b1" "bf16" "e4m3" "e5m2" "f16" "f32" "f64" "i1" "index" "s16" "s32" "s4" "s64" "s8" "tf32" "u16" "u32" "u4" "u64" "u8"))
((tensor_type . (name_token) @type.builtin) (#any-of? @type.builtin "b1" "bf16" "e4m3" "e5m2" "f16" "f32" "f64" "i1" "index" "s16" "s32" "s4" "s64" "s8" "tf32" "u16" "u32" "u4" "u64" "u8"))
(attribute (name_token) @property)
(call . (name (name_token) @function.call))
((call . (name (name_token) @function.builtin)) (#any-of? @function.builtin "abs" "acos" "aligned" "all" "any" "append" "arange" "argmax" "argmin" "asin" "asm" "atan" "atan2" "atomic_add" "atomic_and" "atomic_cas" "atomic_exchange" "atomic_max" "atomic_min" "atomic_or" "atomic_xor" "barrier" "bitcast" "block" "brev" "broadcast" "bytes" "cdiv" "ceil" "clamp" "clz" "commit" "concatenate" "contiguous" "copy" "copysign" "cos" "cosh" "cummax" "cummin" "cumprod" "cumsum" "dot" "dtype" "empty" "erf" "erfc" "exp" "exp2" "expm1" "fits" "flat" "floor" "fma" "full" "gather" "gelu" "gelu_tanh" "given" "grid" "isfinite" "isinf" "isnan" "joined" "ldmatrix" "load" "log" "log10" "log1p" "log2" "logsumexp" "max" "maximum" "mean" "min" "minimum" "mulhi" "next_pow2" "occupancy" "ones" "philox" "polynomial" "popc" "pow" "pow2_divisor" "print" "prod" "randint" "randn" "reduce" "relu" "reshape" "round" "rsqrt" "scan" "shape" "sigmoid" "sign" "silu" "sin" "sinh" "size" "softplus" "sort" "sqrt" "stack" "stmatrix" "store" "sum" "sum_type" "tan" "tanh" "transpose" "trunc" "tuple" "uniform" "wait" "where" "workspace" "workspace_like" "zeros"))
(call . (attribute (name_token) @function.method.call))
(property . (name_token) @attribute)
(launch . (name_token) @function.call)
(def "def" . (name_token) @function)
(dispatch "dispatch" . (name_token) @function)
(kernel "kernel" . (name_token) @function)
(example "example" . (name_token) @type)
(schedule "schedule" . (name_token) @type)
["def" "dispatch" "example" "kernel" "schedule"] @keyword
["as" "assert" "choice" "computes" "elif" "else" "expect" "for" "grid" "if" "import" "in" "layout" "moves" "of" "on" "option" "require" "return" "ring" "shared" "static" "table" "tune" "while" "with" "within"] @keyword
["and" "not" "or"] @keyword.operator
["(" ")" "," "." ":" ";" "=" "?" "[" "]" "~="] @punctuation
(ellipsis) @punctuation
(string_token) @string
(number_token) @number
(comment) @comment
