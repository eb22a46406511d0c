/* Transfers between accounts. The program hangs. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

struct account {
    pthread_mutex_t lock;
    long balance;
    long fees;
};

static struct account accounts[4];

static void charge_fee(struct account *account)
{
    pthread_mutex_lock(&account->lock);
    account->balance -= 1;
    account->fees += 1;
    pthread_mutex_unlock(&account->lock);
}

static void withdraw(struct account *account, long amount)
{
    pthread_mutex_lock(&account->lock);
    account->balance -= amount;
    if (account->balance < 0)
        charge_fee(account);
    pthread_mutex_unlock(&account->lock);
}

static void deposit(struct account *account, long amount)
{
    pthread_mutex_lock(&account->lock);
    account->balance += amount;
    pthread_mutex_unlock(&account->lock);
}

static void *transfers(void *unused)
{
    (void)unused;
    for (int i = 0; i < 1000; i++) {
        withdraw(&accounts[i % 4], 7);
        deposit(&accounts[(i + 1) % 4], 3);
    }
    return NULL;
}

int main(void)
{
    for (int i = 0; i < 4; i++) {
        pthread_mutex_init(&accounts[i].lock, NULL);
        accounts[i].balance = 100;
    }
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, transfers, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    printf("done\n");
    return 0;
}
