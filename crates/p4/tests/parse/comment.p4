const bit<8> a = 1;
/* a comment without an end // error: a comment without an end
