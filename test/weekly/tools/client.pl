# Perl's OpenAPI::Client makes a method of each operation of the document: client.pl DOCUMENT ORIGIN TOKEN KEY ID NAME
use strict;
use warnings;
use utf8;
use OpenAPI::Client;

my ($document, $origin, $token, $key, $id, $name) = @ARGV;
utf8::decode($name);
my $client = OpenAPI::Client->new("file://$document");
$client->base_url(Mojo::URL->new($origin));
$client->ua->on(start => sub { $_[1]->req->headers->authorization("Bearer $token") });
my $tx = $client->createPlant({ 'Idempotency-Key' => $key, body => { id => 0 + $id, name => $name } });
print $tx->res->code // $tx->error->{message}, ' ', $tx->res->body, "\n";
